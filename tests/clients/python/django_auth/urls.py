from django.contrib.auth.views import LoginView
from django.http import HttpResponse
from django.urls import path

urlpatterns = [
    path("login/", LoginView.as_view(success_url="/me/")),
    path("me/", lambda request: HttpResponse(str(request.user))),
]
